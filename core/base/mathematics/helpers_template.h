/* helpers_template.h: the tide_* functions that the expressions of op.def call, for one type. The only text of each:
 * helpers.h includes it for C and CUDA once a type, and fuse_text.c puts those that a kernel names into its text, where
 * CMake has brought it (scripts/cmake/tide_text.cmake).
 *
 *   T, U          an integer type and its unsigned twin; or without U a floating-point type T, and
 *   F(name)       its function of <math.h>
 *   H(name)       a helper's name for the type
 *   HELPER        precedes a function; HELPER_LONG: one that a GPU calls instead of inlining it
 *
 * Functions are branch-free if they can be, so that the loops become vector code. Integers never trap: x / 0 and x % 0,
 * which core refuses, are 0 for every kind of division, the smallest integer divided by -1 wraps to itself, and a
 * negative power is 0 unless the base is 1 or -1. Shift counts below 0 or beyond the width give 0, or the sign for
 * shifts to the right.
 *
 * Invariant: a function begins at a line that starts with HELPER and calls only functions above it. */
HELPER T H(sign)(T x) { return (T)(x > 0) - (T)(x < 0); }
HELPER T H(sgn)(T x) { return (T)(x > 0) - (T)(x < 0); }
HELPER T H(conj)(T x) { return x; }

#ifdef U

HELPER T H(abs)(T x) {
#  ifdef __CUDACC__
  /* ptxas takes the result of its own instruction for positive, and the smallest integer has none */
  return (T)((U)x * (U)(x < 0 ? -1 : 1));
#  else
  return x < 0 ? (T)((U)0 - (U)x) : x;
#  endif
}
HELPER T H(floor)(T x) { return x; }
HELPER T H(ceil)(T x) { return x; }
HELPER T H(rint)(T x) { return x; }
HELPER T H(trunc)(T x) { return x; }
HELPER bool H(isnan)(T x) { return (void)x, false; }
HELPER bool H(isinf)(T x) { return (void)x, false; }
HELPER bool H(isfinite)(T x) { return (void)x, true; }
HELPER T H(nan_to_num)(T x, T nan, T high, T low) { return (void)nan, (void)high, (void)low, x; }
HELPER bool H(signbit)(T x) { return x < 0; }
HELPER T H(max)(T a, T b) { return a > b ? a : b; }
HELPER T H(min)(T a, T b) { return a < b ? a : b; }
HELPER T H(fmax)(T a, T b) { return a > b ? a : b; }
HELPER T H(fmin)(T a, T b) { return a < b ? a : b; }
HELPER T H(shl)(T a, T b) { return (U)b < 8 * sizeof(T) ? (T)((U)a << ((U)b % (8 * sizeof(T)))) : 0; }
HELPER T H(shr)(T a, T b) { return a >> ((U)b < 8 * sizeof(T) ? (U)b : 8 * sizeof(T) - 1); }

HELPER_LONG T H(div_trunc)(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? (T)((U)0 - (U)a) : a / b;
}
HELPER_LONG T H(fmod)(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
HELPER_LONG T H(remainder)(T a, T b) {
  if (b == 0 || b == -1) return 0;
  T r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}
HELPER_LONG T H(div_floor)(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return (T)((U)0 - (U)a);
  T q = a / b;
  return q - (a % b != 0 && (a ^ b) < 0);
}
HELPER_LONG T H(pow)(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  U power = 1, base = (U)a;
  for (; b; b >>= 1, base *= base) power *= b & 1 ? base : 1;
  return (T)power;
}
HELPER_LONG T H(gcd)(T a, T b) {
  U x = a < 0 ? (U)0 - (U)a : (U)a, y = b < 0 ? (U)0 - (U)b : (U)b;
  while (y) {
    U r = x % y;
    x = y, y = r;
  }
  return (T)x;
}
HELPER T H(lcm)(T a, T b) {
  U g = (U)H(gcd)(a, b), x = a < 0 ? (U)0 - (U)a : (U)a, y = b < 0 ? (U)0 - (U)b : (U)b;
  return g ? (T)(x / g * y) : 0;
}

#else

HELPER T H(abs)(T x) { return F(fabs)(x); }
HELPER T H(floor)(T x) { return F(floor)(x); }
HELPER T H(ceil)(T x) { return F(ceil)(x); }
HELPER T H(rint)(T x) { return F(rint)(x); }
HELPER T H(trunc)(T x) { return F(trunc)(x); }
HELPER bool H(isnan)(T x) { return x != x; }
HELPER bool H(isinf)(T x) { return F(fabs)(x) == (T)INFINITY; }
HELPER bool H(isfinite)(T x) { return F(fabs)(x) < (T)INFINITY; }
HELPER T H(nan_to_num)(T x, T nan, T high, T low) {
  x = x != x ? nan : x;
  x = x == (T)INFINITY ? high : x;
  return x == -(T)INFINITY ? low : x;
}
HELPER bool H(signbit)(T x) { return F(copysign)((T)1, x) < 0; }
HELPER T H(copysign)(T a, T b) { return F(copysign)(a, b); }
HELPER T H(max)(T a, T b) { return (!(a <= b) & (b == b)) ? a : b; }
HELPER T H(min)(T a, T b) { return (!(a >= b) & (b == b)) ? a : b; }
HELPER T H(fmax)(T a, T b) { return ((a > b) | (b != b)) ? a : b; }
HELPER T H(fmin)(T a, T b) { return ((a < b) | (b != b)) ? a : b; }
HELPER T H(divide)(T a, T b) { return a / b; }
/* As an integer, toward zero; the smallest one if it does not fit. */
HELPER long long H(whole)(T x) { return x >= (T)-0x1p63 && x < (T)0x1p63 ? (long long)x : -0x7fffffffffffffffll - 1; }
HELPER T H(div_trunc)(T a, T b) { return F(trunc)(a / b); }

HELPER_LONG T H(fmod)(T a, T b) { return F(fmod)(a, b); }
HELPER T H(remainder)(T a, T b) {
  T r = H(fmod)(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* The floor of the exact quotient, which a / b may round up to: 1 // 0.1 is 9. */
HELPER T H(div_floor)(T a, T b) {
  if (b == 0) return a / b;
  T r = H(fmod)(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return F(copysign)((T)0, a / b);
  T whole = F(floor)(q);
  return q - whole > (T)0.5 ? whole + 1 : whole;
}
HELPER_LONG T H(pow)(T a, T b) { return F(pow)(a, b); }

/* Equal infinities are close; an infinite distance is not within an infinite tolerance. */
HELPER bool H(isclose)(T a, T b, T rtol, T atol, T equal_nan) {
  T distance = F(fabs)(a - b);
  bool near = (distance <= atol + rtol * F(fabs)(b)) & (distance < (T)INFINITY);
  return (a == b) | near | ((equal_nan != 0) & (a != a) & (b != b));
}
HELPER T H(angle)(T x) { return x != x ? x : x < 0 ? (T)3.14159265358979323846 : (T)0; }
HELPER T H(entr)(T x) { return x > 0 ? -x * F(log)(x) : x < 0 ? -(T)INFINITY : x; }
HELPER T H(frexp_fraction)(T x) {
  int exponent;
  return F(frexp)(x, &exponent);
}
HELPER T H(frexp_exponent)(T x) {
  int exponent = 0;
  if (F(fabs)(x) < (T)INFINITY) F(frexp)(x, &exponent);
  return (T)exponent;
}

#endif
