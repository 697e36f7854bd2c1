/* share.c: host memory that other processes can open.
 *
 * It is a file without a name in any folder, found through the holder's list of open files under /proc. So nothing is
 * left behind when a process dies, whatever way it goes. A number in that list may come to mean another file; therefore
 * each file carries a random key, which whoever opens it compares.
 *
 * Invariant: what tide__share_open returns is the file that the name was made for. */
#include "share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tide/tide.h"

enum { NAME = 64 };

static void name_of(char *text, const tide__share *name) {
  snprintf(text, NAME, "tide-%016llx", (unsigned long long)name->key);
}

bool tide__share_new(tide__share *out, size_t bytes) {
  char text[NAME];
  tide__share name = {.process = (int32_t)getpid(), .key = tide_random_seed()};
  name_of(text, &name);
  name.file = memfd_create(text, MFD_CLOEXEC);
  if (name.file < 0) return false;
  if (ftruncate(name.file, (off_t)bytes)) {
    close(name.file);
    return false;
  }
  *out = name;
  return true;
}

int tide__share_open(const tide__share *name) {
  char path[NAME], link[2 * NAME] = "", text[NAME];
  name_of(text, name);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", name->process, name->file);
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0 || !strstr(link, text)) return -1;
  return open(path, O_RDWR | O_CLOEXEC);
}

bool tide__share_alive(int process) {
  char path[NAME], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t n = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[n] = 0;
  const char *state = strrchr(line, ')'); /* behind the program's name */
  return state && state[1] && state[2] != 'Z' && state[2] != 'X';
}
