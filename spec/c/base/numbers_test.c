/* numbers_test.c: plain arithmetic of base against every number of a dtype: the limits of random numbers, the place
 * that a unit picks among running sums, and names that are UTF-8. */
#include <math.h>

#include "base/base.h"
#include "base/draws.h"
#include "base/json.h"
#include "base/plan.h"
#include "check.h"

/* The finite numbers of a dtype of 16 bits, in order. */
static double number[65536];
static int numbers;

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void list_numbers(tide_dtype dtype) {
  int digits = dtype == TIDE_FLOAT16 ? 10 : 7, bias = dtype == TIDE_FLOAT16 ? 15 : 127,
      top = dtype == TIDE_FLOAT16 ? 31 : 255;
  numbers = 0;
  for (int e = 0; e < top; e++)
    for (int m = 0; m < 1 << digits; m++) {
      double x = e ? ldexp(1 + ldexp(m, -digits), e - bias) : ldexp(m, 1 - bias - digits);
      number[numbers++] = x;
      if (x > 0) number[numbers++] = -x;
    }
  qsort(number, (size_t)numbers, sizeof *number, by_size);
}

/* [low, high): the first number in it, and the value from which on a draw is rounded to `high` or above. */
static void uniform(tide_dtype dtype, double low, double high) {
  tide_random_args a = {.kind = TIDE_UNIFORM, .dtype = (uint8_t)dtype, .a = low, .b = high};
  int first = 0, next;
  while (first < numbers && number[first] < low) first++;
  for (next = first; next < numbers && number[next] < high; next++) {}
  tide__random_limits(&a);
  if (next == first || next == numbers) {
    CHECK(next == numbers || (a.a == low && a.b == 0));
    return;
  }
  CHECK(a.a == number[first] && a.b == high - number[first]);
  CHECK(a.most == (number[next - 1] + number[next]) / 2);
}

static void limits(void) {
  for (int k = 0; k < 2; k++) {
    tide_dtype dtype = k ? TIDE_BFLOAT16 : TIDE_FLOAT16;
    list_numbers(dtype);
    for (int i = 1; i < numbers - 1; i += 97) {
      double x = number[i], after = number[i + 1], far = number[(i + 20000) % numbers];
      uniform(dtype, x, after), uniform(dtype, x, (x + after) / 2), uniform(dtype, (x + after) / 2, after);
      uniform(dtype, (x + after) / 2, 2 * after - x), uniform(dtype, number[i - 1], after);
      if (far > x) uniform(dtype, x, far), uniform(dtype, (3 * x + after) / 4, far);
    }
    for (int e = -12; e < 12; e++) /* powers of two, below which the numbers are closer */
      for (int sign = -1; sign < 2; sign += 2)
        uniform(dtype, sign * ldexp(1, e) - 1, sign * ldexp(1, e)),
            uniform(dtype, sign * ldexp(1, e), sign * ldexp(1, e) + 1);
  }
}

static void picks(void) {
  const double sums[] = {0, 0, 0.25, 0.25, 0.5, 1, 1, 2, 2};
  const double units[] = {0, 0.1, 0.125, 0.2, 0.25, 0.4, 0.5, 0.75, 0.99};
  const int64_t places[] = {2, 2, 4, 4, 5, 5, 7, 7, 7};
  for (int i = 0; i < 9; i++) CHECK(tide_pick_place(sums, 9, units[i]) == places[i]);
  const double tiny[] = {0, 0x1p-1074, 0x1p-1074};
  CHECK(tide_pick_place(tiny, 3, 0.999) == 1 && tide_pick_place(tiny, 1 + 1, 0) == 1);
}

static void texts(void) {
  const struct {
    const char *text;
    bool is_utf8;
  } rows[] = {{"", true},
              {"a\x7f", true},
              {"\xc2\x80", true},
              {"\xdf\xbf", true},
              {"\xe0\xa0\x80", true},
              {"\xed\x9f\xbf", true},
              {"\xee\x80\x80", true},
              {"\xef\xbf\xbf", true},
              {"\xf0\x90\x80\x80", true},
              {"\xf4\x8f\xbf\xbf", true},
              {"\x80", false},
              {"\xbf", false},
              {"\xc0\x80", false},
              {"\xc1\xbf", false},
              {"\xc2", false},
              {"\xc2\x7f", false},
              {"\xc2\xc0", false},
              {"\xe0\x9f\xbf", false},
              {"\xe1\x80", false},
              {"\xe1\x80\x7f", false},
              {"\xed\xa0\x80", false},
              {"\xf0\x8f\xbf\xbf", false},
              {"\xf0\x90\x80", false},
              {"\xf4\x90\x80\x80", false},
              {"\xf5\x80\x80\x80", false},
              {"\xff", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK(tide__utf8(rows[i].text, strlen(rows[i].text)) == rows[i].is_utf8);
    char among[16];
    snprintf(among, sizeof among, "x%sy", rows[i].text);
    CHECK(tide__utf8(among, strlen(among)) == rows[i].is_utf8);
  }
}

/* 16-bit floats against the list of all of them: each number, what lies between two, and both neighbours of that. */
static void halves(void) {
  for (int k = 0; k < 2; k++) {
    tide_dtype dtype = k ? TIDE_BFLOAT16 : TIDE_FLOAT16;
    list_numbers(dtype);
    for (int i = 0; i < numbers - 1; i++) {
      if (dtype == TIDE_BFLOAT16 && fabs(number[i]) < 0x1p-100) continue; /* the middle is no float32 */
      float low = (float)number[i], high = (float)number[i + 1], middle = (float)((number[i] + number[i + 1]) / 2);
      const float at[] = {low, nextafterf(middle, low), middle, nextafterf(middle, high)};
      for (int j = 0; j < 4; j++) {
        uint16_t bits = k ? tide__to_bfloat16(at[j]) : tide__to_half(at[j]);
        float got = k ? tide__from_bfloat16(bits) : tide__from_half(bits);
        if (j == 2 ? (got != low && got != high) || bits & 1 : got != (j < 2 ? low : high)) {
          printf("%a became %a\n", (double)at[j], (double)got);
          failures++;
        }
      }
    }
    const float most = (float)number[numbers - 1], end = k ? 0x1.ffp127f : 65520;
    for (int sign = -1; sign < 2; sign += 2) {
      const float below = nextafterf(end, 0);
      uint16_t last = k ? tide__to_bfloat16(sign * below) : tide__to_half(sign * below);
      uint16_t beyond = k ? tide__to_bfloat16(sign * end) : tide__to_half(sign * end);
      uint16_t inf = k ? tide__to_bfloat16(sign * INFINITY) : tide__to_half(sign * INFINITY);
      uint16_t nan = k ? tide__to_bfloat16(copysignf(NAN, (float)sign)) : tide__to_half(copysignf(NAN, (float)sign));
      CHECK((k ? tide__from_bfloat16(last) : tide__from_half(last)) == sign * most);
      CHECK(isinf(k ? tide__from_bfloat16(beyond) : tide__from_half(beyond)) && beyond == inf);
      CHECK(inf == (k ? 0x7f80 : 0x7c00) + (sign < 0 ? 0x8000 : 0));
      CHECK(isnan(k ? tide__from_bfloat16(nan) : tide__from_half(nan)));
    }
  }
}

/* Which numbers a dtype takes: its ends, and one step beyond them; a number that it takes is what is read back. */
static void ends(void) {
  const struct {
    tide_dtype dtype;
    double least, most; /* taken; the next number is not */
    double below, above;
  } rows[] = {{TIDE_UINT8, -255, 255, -256, 256},
              {TIDE_INT8, -128, 127, -129, 128},
              {TIDE_INT16, -32768, 32767, -32769, 32768},
              {TIDE_INT32, -0x1p31, 0x1p31 - 1, -0x1p31 - 1, 0x1p31},
              {TIDE_INT64, -0x1p63, 0x1.fffffffffffffp62, -0x1.0000000000001p63, 0x1p63},
              {TIDE_FLOAT16, -65504, 65504, -0x1.ffc0000000001p15, 0x1.ffc0000000001p15},
              {TIDE_BFLOAT16, -0x1.fffffep127, 0x1.fffffep127, -0x1.fffffe0000001p127, 0x1.fffffe0000001p127},
              {TIDE_FLOAT32, -0x1.fffffep127, 0x1.fffffep127, -0x1.fffffe0000001p127, 0x1.fffffe0000001p127}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tide_dtype dtype = rows[i].dtype;
    const double all[] = {rows[i].least, rows[i].most, rows[i].below, rows[i].above};
    for (int j = 0; j < 4; j++) {
      char text[160];
      tide_tensor *x = NULL;
      const tide_options options = {dtype, TIDE_CPU, false};
      int64_t two = 2;
      bool whole = dtype < TIDE_FLOAT16 && fabs(all[j]) < 0x1p62;
      for (int form = 0; form < 1 + whole; form++) { /* as a float, and as an integer */
        tide_scalar given = form ? tide_int((int64_t)all[j]) : tide_float(all[j]), back;
        snprintf(text, sizeof text, "ValueError: full: value does not fit, got %.17g, expected one that %s can hold",
                 all[j], tide_dtype_name(dtype));
        tide_status status = tide_full(&x, &two, 1, given, &options);
        if (j > 1) {
          REFUSES(text, status);
          CHECK(!x);
          continue;
        }
        OK(status);
        tide_tensor *first = NULL;
        OK(tide_select(&first, x, 0, 0));
        OK(tide_item(&back, first));
        if (dtype < TIDE_FLOAT16)
          CHECK(back.i == (dtype == TIDE_UINT8 ? (uint8_t)(int64_t)all[j] : (int64_t)all[j]));
        else
          CHECK(dtype == TIDE_BFLOAT16 ? isinf(back.re) : back.re == all[j]);
        tide_tensor_release(first), tide_tensor_release(x), x = NULL;
      }
    }
  }
  /* A float loses its fraction first. */
  tide_tensor *x = NULL;
  int64_t one = 1;
  OK(tide_full(&x, &one, 1, tide_float(127.75), &(tide_options){TIDE_INT8, TIDE_CPU, false}));
  tide_tensor_release(x), x = NULL;
  OK(tide_full(&x, &one, 1, tide_float(-128.75), &(tide_options){TIDE_INT8, TIDE_CPU, false}));
  tide_tensor_release(x);
  CHECK(!strcmp(tide_status_kind((tide_status)-1), "Unknown") && !strcmp(tide_status_kind((tide_status)99), "Unknown"));
}

int main(void) {
  OK(tide_init(NULL));
  limits();
  picks();
  texts();
  halves();
  ends();
  tide_shutdown();
  return failures != 0;
}
