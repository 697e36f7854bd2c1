/* mpi.c: opens an MPI library and makes of it the table of mpi.h.
 *
 * There are three binary interfaces. Handles are ints in the MPICH family and pointers in Open MPI and in the standard
 * ABI, so every function of mpi.def is expanded twice, each with the true type of its handles: a call never goes
 * through a prototype of another width. Which interface it is the library's own symbols tell: MPI_Abi_get_version gives
 * a version in the standard ABI, ompi_mpi_comm_world is Open MPI's, and all else is MPICH's.
 *
 * Invariant: an open library stays open, and another one is never opened beside it. */
#include "distributed/mpi.h"

#include <stdio.h>
#include <string.h>

#include "os/os.h"

const tide__mpi *mpi;
tide__mpi_constants mpi_const;
const char *mpi_abi = "";
char mpi_file[256];

/* The library's functions, in the order of mpi.def. */
static struct {
#define MPI(name, parameters, arguments) void *name;
#include "distributed/mpi.def"
} symbols;

#define HANDLE                           int
#define MPI(name, parameters, arguments) typedef int(*int_##name##_fn) parameters;
#include "distributed/mpi.def"
#undef HANDLE
#define HANDLE uint64_t
#define AS(h)  ((int)(h))
#define MPI(name, parameters, arguments)                                                                               \
  static int int_##name parameters { return ((int_##name##_fn)symbols.name)arguments; }
#include "distributed/mpi.def"
#undef AS
#undef HANDLE

#define HANDLE                           void *
#define MPI(name, parameters, arguments) typedef int(*pointer_##name##_fn) parameters;
#include "distributed/mpi.def"
#undef HANDLE
#define HANDLE uint64_t
#define AS(h)  ((void *)(uintptr_t)(h))
#define MPI(name, parameters, arguments)                                                                               \
  static int pointer_##name parameters { return ((pointer_##name##_fn)symbols.name)arguments; }
#include "distributed/mpi.def"
#undef AS
#undef HANDLE

static const tide__mpi with_ints = {
#define MPI(name, parameters, arguments) int_##name,
#include "distributed/mpi.def"
};
static const tide__mpi with_pointers = {
#define MPI(name, parameters, arguments) pointer_##name,
#include "distributed/mpi.def"
};

static const tide__mpi_constants of_mpich = {
#define OBJECT(member, open_mpi, mpich, standard) mpich,
#define NUMBER(member, open_mpi, mpich, standard) mpich,
#include "distributed/mpi.def"
};
static const tide__mpi_constants of_standard = {
#define OBJECT(member, open_mpi, mpich, standard) standard,
#define NUMBER(member, open_mpi, mpich, standard) standard,
#include "distributed/mpi.def"
};

/* Addresses inside of the library. NULL: all are there; else the name of what is missing. */
static const char *read_open_mpi(void *library) {
  tide__mpi_constants c;
#define OBJECT(member, open_mpi, mpich, standard)                                                                      \
  c.member = (uint64_t)(uintptr_t)tide__os_symbol(library, open_mpi);                                                  \
  if (!c.member) return open_mpi;
#define NUMBER(member, open_mpi, mpich, standard) c.member = open_mpi;
#include "distributed/mpi.def"
  mpi_const = c;
  return NULL;
}

static const char *read_symbols(void *library) {
#define MPI(name, parameters, arguments)                                                                               \
  symbols.name = tide__os_symbol(library, "MPI_" #name);                                                               \
  if (!symbols.name) return "MPI_" #name;
#include "distributed/mpi.def"
  return NULL;
}

static bool has_standard_abi(void *library) {
  int major = -1, minor = -1;
  int (*version)(int *, int *) = NULL;
  *(void **)&version = tide__os_symbol(library, "MPI_Abi_get_version");
  return version && version(&major, &minor) == 0 && major > 0;
}

bool tide__mpi_open(const char *name, char *problem, size_t size) {
  if (mpi) return true;
  void *library = *name ? tide__os_library(name, true) : NULL;
  if (*name && !library) return snprintf(problem, size, "%s", tide__os_library_problem()), false;
  const char *missing = read_symbols(library);
  const tide__mpi *table = &with_pointers;
  if (!missing && has_standard_abi(library)) {
    mpi_abi = "MPI 5 standard ABI", mpi_const = of_standard;
  } else if (!missing && tide__os_symbol(library, "ompi_mpi_comm_world")) {
    mpi_abi = "Open MPI", missing = read_open_mpi(library);
  } else if (!missing) {
    mpi_abi = "MPICH", mpi_const = of_mpich, table = &with_ints;
  }
  if (missing) {
    snprintf(problem, size, "%s lacks %s, expected a library of MPI 3.0 or later", *name ? name : "this program",
             missing);
    if (library) tide__os_library_close(library);
    return false;
  }
  snprintf(mpi_file, sizeof mpi_file, "%s", *name ? name : "the program's own");
  mpi = table;
  return true;
}

const char *tide__mpi_problem(char *text, size_t size, const char *function, int code) {
  char why[TIDE__MPI_TEXT] = "";
  int length = 0;
  if (mpi->Error_string(code, why, &length)) snprintf(why, sizeof why, "error %d", code);
  why[strcspn(why, "\n")] = 0;
  snprintf(text, size, "%s: %.300s", function, why);
  return text;
}
