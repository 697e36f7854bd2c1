/* tide/values.h: values as bytes in a file: numbers, strings, tables, and tensors that share their storages. What calls
 * it walks the tables and numbers what may be referred to. Conventions as in tide.h. */
#ifndef TIDE_VALUES_H
#define TIDE_VALUES_H

#include "tide/file.h"

TIDE_C_BEGIN

typedef enum tide_saved_kind {
  TIDE_SAVED_NIL,       /* also the end of a table */
  TIDE_SAVED_BOOLEAN,   /* integer: 0 or 1 */
  TIDE_SAVED_INTEGER,   /* integer */
  TIDE_SAVED_NUMBER,    /* number */
  TIDE_SAVED_TEXT,      /* text, length */
  TIDE_SAVED_TABLE,     /* its keys follow, each with its value, then a nil */
  TIDE_SAVED_REFERENCE, /* integer: the number of a table or tensor that was met before, counted from 1 */
  TIDE_SAVED_DTYPE,     /* integer */
  TIDE_SAVED_DEVICE,    /* text, length: its name */
  TIDE_SAVED_TENSOR,    /* tensor */
  TIDE_SAVED_HANDLE,    /* text, length: the bytes of a tide_ipc_tensor */
  TIDE_SAVED_PLACE      /* read only: the bytes of a storage come, which was on the device of this name (text, length):
                         * tide_values_place says where it goes, then the next value is read */
} tide_saved_kind;

/* What was read belongs to the reader until the next call. */
typedef struct tide_saved {
  tide_saved_kind kind;
  int64_t integer;
  double number;
  const char *text;
  size_t length;
  tide_tensor *tensor;
} tide_saved;

/* A file that is written or read. */
typedef struct tide_values tide_values;

/* `what`: who writes or reads, of messages, which live as long. is_open: asked before the file is touched, since memory
 * hooks may have closed it meanwhile; NULL: it stays open. */
typedef struct tide_values_config {
  const char *what;
  FILE *file; /* NULL: what is written is only looked at */
  bool (*is_open)(void *user);
  void *user;
  const char *name;      /* of a file that is read */
  tide_mapping *mapping; /* of it, or NULL: large storages are used where they lie */
  size_t struct_size;    /* as in tide_options */
} tide_values_config;

/* Write the head of a file, or read and check it. */
TIDE_API tide_status tide_values_write(tide_values **out, const tide_values_config *config);
TIDE_API tide_status tide_values_read(tide_values **out, const tide_values_config *config);
/* NULL is allowed. */
TIDE_API void tide_values_free(tide_values *values);

/* Writes a value. Where the file takes nothing more it goes on, and tide_values_flush says so. */
TIDE_API tide_status tide_values_put(tide_values *values, const tide_saved *value);
/* Everything is handed to the system; *error: 0 or the errno of the first write that failed. */
TIDE_API tide_status tide_values_flush(tide_values *values, int *error);

/* Reads the next value. Nothing in the file is believed. */
TIDE_API tide_status tide_values_get(tide_saved *out, tide_values *values);
/* After TIDE_SAVED_PLACE: the storage goes to this device. */
TIDE_API tide_status tide_values_place(tide_values *values, int device);
/* The error of a file that was read and is `how`: "a reference is wrong". */
TIDE_API tide_status tide_values_broken(const tide_values *values, const char *how);

TIDE_C_END
#endif
