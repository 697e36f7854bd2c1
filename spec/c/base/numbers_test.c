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

int main(void) {
  limits();
  picks();
  texts();
  return failures != 0;
}
