/* order.h: which stream has waited for all that another one had. Private to core. */
#pragma once

#include "progress.h"

/* How far a stream has come, as far as core has queued it: anything new makes it another number. 0: not known. */
uint64_t tide__order_now(const tide_stream *stream);
/* The stream will wait for the other one as it was at `then`; NULL and 0: for something else. */
void tide__order_waited(tide_stream *stream, tide_stream *other, uint64_t then);
/* Nothing was queued on the other stream since this one waited for it: to wait again would change nothing. */
bool tide__order_settled(const tide_stream *stream, const tide_stream *other);
/* A point that is watched stands behind all that the stream had at `then`. */
void tide__order_watched(tide_stream *stream, uint64_t then);
/* Nothing was queued behind it since. */
bool tide__order_is_watched(const tide_stream *stream);
/* Somebody outside may queue work there from now on. */
void tide__order_expose(const tide_stream *stream);
