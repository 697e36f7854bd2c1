/* complex_math.h: the functions of complex numbers that C has not, or not accurately enough. */
#pragma once

#include <complex.h>
#include <stdbool.h>

#undef I

double _Complex tide__cexp2(double _Complex z);
double _Complex tide__cexpm1(double _Complex z);
double _Complex tide__clog2(double _Complex z);
double _Complex tide__clog10(double _Complex z);
double _Complex tide__clog1p(double _Complex z);
double _Complex tide__cpow(double _Complex a, double _Complex b);
/* log(exp(a) + exp(b)). */
double _Complex tide__clog_add(double _Complex a, double _Complex b);
double _Complex tide__csgn(double _Complex z);
double _Complex tide__cnan_to_num(double _Complex z, double nan, double high, double low);
bool tide__cisclose(double _Complex a, double _Complex b, double rtol, double atol, bool equal_nan);
