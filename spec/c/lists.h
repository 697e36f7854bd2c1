/* lists.h: sizes, dims or numbers of devices, and tensors, as arguments of a call. */
#pragma once

#define SIZE(...)                                                                                                      \
  (const int64_t[]) { __VA_ARGS__ }
#define DIMS(...)                                                                                                      \
  (const int[]) { __VA_ARGS__ }
#define LIST(...)                                                                                                      \
  (tide_tensor *[]) { __VA_ARGS__ }
