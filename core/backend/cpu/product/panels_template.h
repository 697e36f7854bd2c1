/* panels_template.h: how operands of one size become panels of one width; product_pack.h includes it for each. Before:
 * U, a type of that size; NAME(f), the name of a function for it; WIDTH, lanes of a panel; SQUARE(f), SQUARES, the
 * function for a square of lanes and k, and its side. */

static void NAME(pack_along)(U *restrict out, const U *restrict in, int64_t k_apart, int64_t k, int64_t panels,
                             int64_t high, int64_t tall) {
  enum { W = WIDTH };
  for (int64_t p = 0; p < k; p++) {
    const U *from = in + p * k_apart;
    for (int64_t q = 0; q < panels; q++) {
      const int64_t lanes = high - (q >= tall);
      U *to = out + (q * k + p) * W;
      if (lanes == W || q + 1 < panels)
        memcpy(to, from, W * sizeof(U));
      else
        for (int l = 0; l < W; l++) to[l] = from[l < lanes ? l : lanes - 1];
      from += lanes;
    }
  }
}

static void NAME(pack)(void *out_, const void *in_, int64_t lanes_apart, int64_t k_apart, int64_t k, int64_t panels,
                       int64_t high, int64_t tall) {
  enum { W = WIDTH, L = SQUARES, S = 16 / sizeof(U), LAST = W - L };
  U *restrict out = out_;
  const U *restrict in = in_, *row[W];
  if (lanes_apart == 1) {
    NAME(pack_along)(out, in, k_apart, k, panels, high, tall);
    return;
  }
  const int64_t squares = L ? k / S * S : 0;
  for (int64_t q = 0; q < panels; q++, out += W * k) {
    const int64_t lanes = high - (q >= tall);
    for (int l = 0; l < W; l++) row[l] = in + (l < lanes ? l : lanes - 1) * lanes_apart;
    for (int l = 0; squares; l = l + L < LAST ? l + L : LAST) {
      for (int64_t p = 0; p < squares; p += S) SQUARE(pack)(out + p * W + l, W, row + l, p);
      if (l == LAST) break;
    }
    for (int64_t p = squares; p < k; p++)
      for (int l = 0; l < W; l++) out[p * W + l] = row[l][p];
    in += lanes * lanes_apart;
  }
}

#undef U
#undef NAME
#undef WIDTH
#undef SQUARE
#undef SQUARES
