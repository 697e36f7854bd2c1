/* windows_file.h: what the files of this room for Windows share. */
#pragma once

#include <stddef.h>

int tide__os_errno(void); /* of the last call of Windows that failed; errno too */
size_t tide__os_slashes(char *path, size_t size, size_t length); /* as other systems write it; 0: it was too long */
