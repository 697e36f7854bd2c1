/* visible.c: which of the machine's devices a process may use: the grammar of CUDA_VISIBLE_DEVICES.
 *
 * The driver applies the variable itself. Here it is applied to simulated devices, and once more to what the management
 * library lists, so that devices can be counted without starting the driver, after which a process could not be forked
 * any more. As the driver
 * does, a number is read as far as it goes ("1gpu2" is 1); a negative number, one that is out of range or a word that
 * is neither ends the list; a device named twice leaves none at all. A word that begins with GPU- or MIG- names the one
 * device whose uuid begins so; a list of such words has no numbers in it.
 *
 * Invariant: what is picked are distinct indexes of the machine's devices. */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

static bool is_uuid(const char *word) { return !strncmp(word, "GPU-", 4) || !strncmp(word, "MIG-", 4); }

/* The device whose uuid begins with the word; -1 if none does or several do. */
static int by_uuid(const char *word, size_t length, char (*uuid)[TIDE_UUID_TEXT], int count) {
  int found = -1;
  for (int i = 0; is_uuid(word) && i < count; i++) {
    if (strncmp(uuid[i], word, length) != 0) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

static int by_number(const char *word, int count) {
  char *end;
  long index = strtol(word, &end, 10);
  return end == word || index < 0 || index >= count ? -1 : (int)index;
}

int tide__visible(int *picked, const char *text, char (*uuid)[TIDE_UUID_TEXT], int count) {
  int n = 0;
  if (!text) {
    for (; n < count; n++) picked[n] = n;
    return n;
  }
  text += strspn(text, " \t");
  bool named = is_uuid(text);
  for (const char *word = text;;) {
    word += strspn(word, " \t");
    int index = named ? by_uuid(word, strcspn(word, ", \t"), uuid, count) : by_number(word, count);
    if (index < 0) return n;
    for (int i = 0; i < n; i++)
      if (picked[i] == index) return 0;
    picked[n++] = index;
    word += strcspn(word, ",");
    if (!*word++) return n;
  }
}
