/* mpi.h: one table of functions for every MPI. Handles are 64-bit words here, whatever they are in the library: an int
 * of MPICH lies in the low half, so a handle may be written to a word that is 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tide__mpi {
#define HANDLE                           uint64_t
#define MPI(name, parameters, arguments) int(*name) parameters;
#include "distributed/mpi.def"
#undef HANDLE
} tide__mpi;

typedef struct tide__mpi_constants {
#define OBJECT(member, open_mpi, mpich, standard) uint64_t member;
#define NUMBER(member, open_mpi, mpich, standard) int member;
#include "distributed/mpi.def"
} tide__mpi_constants;

enum { TIDE__MPI_STATUS = 8, TIDE__MPI_TEXT = 8192 + 1 }; /* ints of the largest status; the longest text, with its 0 */

extern const tide__mpi *mpi;          /* NULL: no library is open */
extern tide__mpi_constants mpi_const; /* of that library */
extern const char *mpi_abi;           /* "Open MPI", "MPICH", "MPI 5 standard ABI" */
extern char mpi_file[256];            /* by which name it was opened */

/* Opens the library that is named; "": one that the program has brought. False: `problem` says why not. */
bool tide__mpi_open(const char *name, char *problem, size_t size);
/* "MPI_Iallreduce: MPI_ERR_TRUNCATE: message truncated", in `text`. */
const char *tide__mpi_problem(char *text, size_t size, const char *function, int code);
