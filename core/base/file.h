/* file.h: what core knows of files beyond tide/file.h. */
#pragma once

#include "base.h"
#include "tide/file.h"

/* The name of the file that is written meanwhile, for what writes by name. */
void tide__file_name(char *out, size_t size, const tide_file *file);
/* Could a file be written there? Leaves nothing behind. */
tide_status tide__file_check(const char *what, const char *path);
