/* tide/host_job.h: work of the host as work of a stream: the stream gets to a place, a thread of the host does
 * something, and the stream goes on behind it. No thread waits for a device, and no device is asked. */
#ifndef TIDE_HOST_JOB_H
#define TIDE_HOST_JOB_H

#include "tide/tide.h"

TIDE_C_BEGIN

typedef struct tide_host_job tide_host_job;

/* For streams of this device. Fails with SUPPORT where streams cannot wait for the host. */
TIDE_API tide_status tide_host_job_new(tide_host_job **out, int device);
TIDE_API void tide_host_job_release(tide_host_job *job); /* ends the job, too; NULL is allowed */
/* The job is ready once the stream has done all that it has queued so far. Once for a job; not while captured. */
TIDE_API tide_status tide_host_job_begin(tide_host_job *job, tide_stream *stream);
/* Reads memory of the host. True if it was never begun; after a failure once somebody has heard of it. Fails if the
 * device is lost. */
TIDE_API tide_status tide_host_job_ready(bool *ready, const tide_host_job *job);
/* Later work of the stream waits for the end of the job. Not while captured. stream NULL: none waits, but its failure
 * is heard of as if one did. */
TIDE_API tide_status tide_host_job_wait(tide_host_job *job, tide_stream *stream);
/* From any thread: the job is done. After a failure the streams that wait go on once a wait for the device has failed
 * with this status and message, or the job is released. */
TIDE_API void tide_host_job_end(tide_host_job *job, tide_status status, const char *message);

TIDE_C_END
#endif
