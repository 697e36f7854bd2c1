/* gemm_pack.c: the operands of a matrix product as panels.
 *
 * Panels of 4 and 8 byte numbers, one of whose distances is 1, are packed by loops of isa.h. The last panel of B,
 * narrower integers, complex numbers and matrices with two distances are packed here, a line of numbers at a time.
 *
 * Invariant: every number of a panel is written. */
#include "gemm.h"

enum { LINE = 256 };

/* n numbers of the tensor that lie `apart`, as a dense line of the compute dtype; in room, or where they are. */
static const char *line_of(const tide__panels *p, char *room, const char *in, int64_t apart, int64_t n) {
  _Alignas(64) char raw[LINE * 16];
  int item = tide__item(p->dtype);
  if (p->dtype == p->compute && apart == 1) return in;
  char *gathered = p->dtype == p->compute ? room : raw;
  if (apart != 1)
    for (int64_t i = 0; i < n; i++) memcpy(gathered + i * item, in + i * apart * item, (size_t)item);
  if (p->dtype != p->compute) tide__cast(p->isa, room, p->compute, apart != 1 ? raw : in, p->dtype, n);
  return room;
}

/* The line's numbers to every `step`th place of out. */
static void spread_line(char *out, int64_t step, const char *line, int item, int64_t n) {
  if (step == 1)
    memcpy(out, line, (size_t)(n * item));
  else if (item == 4)
    for (int64_t i = 0; i < n; i++) memcpy(out + i * step * 4, line + i * 4, 4);
  else
    for (int64_t i = 0; i < n; i++) memcpy(out + i * step * 8, line + i * 8, 8);
}

/* One panel of real numbers, `lanes` of its lanes exist. */
static void pack_real(const tide__panels *p, char *out, const char *in, int64_t lanes, int64_t k) {
  _Alignas(64) char room[LINE * 16];
  int item = p->item, from = tide__item(p->dtype);
  bool along = p->lanes_apart == 1;
  int64_t lines = along ? k : lanes, length = along ? lanes : k;
  int64_t line_apart = along ? p->k_apart : p->lanes_apart, apart = along ? 1 : p->k_apart;
  for (int64_t l = 0; l < lines; l++)
    for (int64_t i = 0; i < length; i += LINE) {
      int64_t n = length - i < LINE ? length - i : LINE;
      const char *line = line_of(p, room, in + (l * line_apart + i * apart) * from, apart, n);
      spread_line(out + (along ? l * p->width + i : i * p->width + l) * item, along ? 1 : p->width, line, item, n);
    }
}

/* One panel of complex numbers: two lanes of B, or two k of A, are one of them. */
#define PACK_COMPLEX(name, T)                                                                                          \
  static void name(const tide__panels *p, T *out, const T *in, int64_t lanes, int64_t k) {                             \
    const int64_t numbers = p->columns ? lanes / 2 : lanes;                                                            \
    for (int64_t i = 0; i < k / 2; i++) {                                                                              \
      T *re = out + 2 * i * p->width, *im = re + p->width;                                                             \
      for (int64_t l = 0; l < numbers; l++) {                                                                          \
        const T *z = in + 2 * (i * p->k_apart + l * p->lanes_apart);                                                   \
        if (p->columns)                                                                                                \
          re[2 * l] = z[0], re[2 * l + 1] = z[1], im[2 * l] = -z[1], im[2 * l + 1] = z[0];                             \
        else                                                                                                           \
          re[l] = z[0], im[l] = z[1];                                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
  }
PACK_COMPLEX(pack_complex64, float)
PACK_COMPLEX(pack_complex128, double)

static void pack_panel(const tide__panels *p, char *out, const char *in, int64_t lanes, int64_t k) {
  if (lanes < p->width) memset(out, 0, (size_t)(p->width * k * p->item));
  if (p->dtype == TIDE_COMPLEX64)
    pack_complex64(p, (float *)out, (const float *)in, lanes, k);
  else if (p->dtype == TIDE_COMPLEX128)
    pack_complex128(p, (double *)out, (const double *)in, lanes, k);
  else
    pack_real(p, out, in, lanes, k);
}

void tide__gemm_pack(const tide__panels *p, char *out, const char *base, int64_t first, int64_t count, int64_t from,
                     int64_t k) {
  bool is_complex = p->dtype >= TIDE_COMPLEX64;
  int64_t item = tide__item(p->dtype), parts = is_complex && p->columns ? 2 : 1;
  base += (is_complex ? from / 2 : from) * p->k_apart * item;
  int64_t whole = !p->pack ? 0 : p->columns ? p->lanes / p->width - first : count;
  if (whole > count) whole = count;
  if (whole > 0)
    p->pack(out, base + tide__panel_lane(p, first) * p->lanes_apart * item, p->lanes_apart, p->k_apart, k, whole,
            p->high, p->tall - first);
  for (int64_t q = whole > 0 ? whole : 0; q < count; q++) {
    int64_t lane = tide__panel_lane(p, first + q), lanes = tide__panel_lane(p, first + q + 1) - lane;
    pack_panel(p, out + q * p->width * k * p->item, base + lane / parts * p->lanes_apart * item, lanes, k);
  }
}
