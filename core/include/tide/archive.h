/* tide/archive.h: arrays in files that other programs read and write: NumPy's .npy and .npz, safetensors. Conventions
 * as in tide.h.
 *
 * Nothing in a file is believed: what is broken gives FILE, with the name of the file and what is wrong, before memory
 * is taken for it. bool, int8 to int64, uint8, float16, float32, float64 and complex numbers are read as they are;
 * uint16 and uint32, which tide lacks, as int32 and int64, and uint64 as int64 where its values fit. Floats of 8 bits
 * in safetensors are read as their bytes, in uint8. Parts of another form (text, objects, other dtypes, more than 12
 * dimensions) have their names in an archive, and fail alone. */
#ifndef TIDE_ARCHIVE_H
#define TIDE_ARCHIVE_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* One array, of format 1.0, 2.0 or 3.0, in either byte order; one in Fortran's order gives a tensor with such strides.
 * On the cpu. */
TIDE_API tide_status tide_npy_load(tide_tensor **out, const char *path);
/* Writes format 1.0 in C's order. A tensor on a device is waited for. The file that was there stays after an error. */
TIDE_API tide_status tide_npy_save(const char *path, const tide_tensor *x);

/* ---- several arrays with names ---- */

typedef enum tide_archive_kind { TIDE_NPZ, TIDE_SAFETENSORS } tide_archive_kind;
typedef struct tide_archive tide_archive;

/* Reads the table of contents. most: the bytes that the compressed arrays which are read may take together; 0: 200
 * times the file's, and 1 GiB in any case. */
TIDE_API tide_status tide_archive_open(tide_archive **out, tide_archive_kind kind, const char *path, int64_t most);
TIDE_API void tide_archive_free(tide_archive *archive); /* NULL is allowed; tensors stay */
TIDE_API int64_t tide_archive_count(const tide_archive *archive);
/* Of each from 0 on, in the order of their bytes; without NumPy's ".npy". Lives as long as the archive. */
TIDE_API const char *tide_archive_name(const tide_archive *archive, int64_t i);
/* The array on the cpu. Of safetensors it is the file's memory: it is read when it is touched, and what is written to
 * it stays in this process. */
TIDE_API tide_status tide_archive_tensor(tide_tensor **out, tide_archive *archive, int64_t i);
/* The dtype as safetensors names it: "BF16", "F8_E4M3". NULL of npz, which says it in front of the values. */
TIDE_API const char *tide_archive_dtype(const tide_archive *archive, int64_t i);
/* Is it of a form that tide lacks, so that tide_archive_tensor fails? Of npz this is known after such a call. */
TIDE_API bool tide_archive_is_foreign(const tide_archive *archive, int64_t i);
/* The pairs of texts in the __metadata__ of safetensors. */
TIDE_API int64_t tide_archive_notes(const tide_archive *archive);
TIDE_API const char *tide_archive_note(const char **value, const tide_archive *archive, int64_t i); /* gives the key */

/* What is written. */
typedef struct tide_archive_content {
  int64_t count, notes;
  const char *const *name; /* distinct, in UTF-8 */
  tide_tensor *const *tensor;
  const char *const *key, *const *value; /* of the notes; safetensors alone has them */
  bool compressed;                       /* npz alone */
  size_t struct_size;                    /* as in tide_options */
} tide_archive_content;
/* Equal contents give equal files. Tensors on devices are waited for. The file that was there stays after an error. */
TIDE_API tide_status tide_archive_save(tide_archive_kind kind, const char *path, const tide_archive_content *content);

TIDE_C_END
#endif
