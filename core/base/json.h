/* json.h: strings as JSON has them. Private to core. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes the text in quotes: UTF-8 as it is, a replacement character for each byte that belongs to none. A '<' is
 * escaped, because the text may be put into a page. */
void tide__json_string(FILE *f, const char *text, size_t length);
bool tide__utf8(const char *text, size_t length); /* is it? */
