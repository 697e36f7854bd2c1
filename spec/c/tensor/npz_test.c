/* npz_test.c: zip files with fields of 64 bits, as files above 4 GiB have them. The size from which the writer takes
 * them is lowered here, so that each kind of record has them in small files: both of a part, what stands behind
 * compressed bytes, and the ends of the table of contents. tide reads the files back, and so does Python's zipfile
 * where there is one, which checks every part against its checksum: all files in one process, at the end. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "io/array.h"
#include "tide/archive.h"

enum { PARTS = 5 };
static const int64_t lengths[PARTS] = {0, 3, 40, 1000, 1};
static const char *const names[PARTS] = {"empty", "few", "some", "many", "last"};
static char folder[] = "/tmp/tide_npz_XXXXXX", path[64]; /* path: the file at hand, in the folder */

static void save(tide_tensor *const *x, bool compressed) {
  const tide_archive_content content = {PARTS, 0, names, x, NULL, NULL, compressed};
  OK(tide_archive_save(TIDE_NPZ, path, &content));
}

static void check_part(tide_archive *a, int64_t i) {
  tide_tensor *y = NULL;
  double got[1000];
  int k = 0;
  while (k < PARTS && strcmp(names[k], tide_archive_name(a, i)) != 0) k++;
  CHECK(k < PARTS);
  OK(tide_archive_tensor(&y, a, i));
  if (!y || k == PARTS) return;
  CHECK(tide_tensor_numel(y) == lengths[k]);
  OK(tide_read(got, y));
  for (int64_t j = 0; j < lengths[k]; j++) CHECK(got[j] == k + 0.5 * (double)j);
  tide_tensor_release(y);
}

static void read_back(void) {
  tide_archive *a = NULL;
  OK(tide_archive_open(&a, TIDE_NPZ, path, 0));
  if (!a) return;
  CHECK(tide_archive_count(a) == PARTS);
  for (int64_t i = 0; i < tide_archive_count(a); i++) check_part(a, i);
  tide_archive_free(a);
}

/* Where the first record of a kind is; -1: there is none. */
static int64_t find(char kind, char sort) {
  static char bytes[1 << 16];
  const char mark[4] = {'P', 'K', kind, sort};
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  const char *at = memmem(bytes, n, mark, sizeof mark);
  if (f) fclose(f);
  return at ? at - bytes : -1;
}

/* The table of contents ends with 64 bits where it begins behind the limit, and only there. */
static void check_end(int64_t limit) {
  int64_t wide = find(6, 6);
  CHECK((wide >= 0) == (find(1, 2) >= limit));
  CHECK(find(6, 7) == (wide < 0 ? -1 : wide + 56));
}

static void zipfile_reads(int files) {
  char command[512];
  snprintf(command, sizeof command,
           "python3 -c \"import zipfile\nfor k in range(%d):\n z = zipfile.ZipFile('%s/%%d' %% k)\n"
           " assert z.testzip() is None\n"
           " assert sorted((i.filename, i.file_size) for i in z.infolist()) == [('empty.npy', 128), ('few.npy', 152), "
           "('last.npy', 136), ('many.npy', 8128), ('some.npy', 448)]\"",
           files, folder);
  CHECK(system(command) == 0);
}

int main(void) {
  static const int64_t from[] = {0, 100, 140, 400, 1000, 8000, 9000, 20000, UINT32_MAX};
  tide_tensor *x[PARTS] = {NULL};
  bool has_python = system("command -v python3 >/dev/null") == 0;
  int files = 0;
  CHECK(mkdtemp(folder));
  OK(tide_init(NULL));
  for (int k = 0; k < PARTS; k++) {
    const tide_options options = {TIDE_FLOAT64, TIDE_CPU, false};
    double values[1000];
    for (int64_t j = 0; j < lengths[k]; j++) values[j] = k + 0.5 * (double)j;
    OK(tide_empty(&x[k], &lengths[k], 1, &options));
    if (lengths[k]) memcpy(tide_tensor_data(x[k]), values, (size_t)lengths[k] * sizeof *values);
  }
  for (size_t i = 0; i < sizeof from / sizeof *from; i++)
    for (int compressed = 0; compressed < 2; compressed++) {
      tide__npz_wide = from[i];
      snprintf(path, sizeof path, "%s/%d", folder, files++);
      save(x, compressed);
      read_back();
      check_end(from[i]);
    }
  if (has_python) zipfile_reads(files);
  for (int k = 0; k < PARTS; k++) tide_tensor_release(x[k]);
  tide_shutdown();
  for (int k = 0; k < files; k++) snprintf(path, sizeof path, "%s/%d", folder, k), remove(path);
  CHECK(rmdir(folder) == 0);
  return failures > 0;
}
