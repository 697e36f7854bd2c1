/* convert_from.h: template of the conversions from one type. S: the type, SN: its dtype's name. CONVERT_FLOAT
 * or CONVERT_COMPLEX is defined for such types; REAL_NAME: the dtype of a complex number's real part. */
CONVERT(b8, uint8_t, B)
#if defined(CONVERT_COMPLEX)
CONVERT(complex64, float _Complex, F)
CONVERT(complex128, double _Complex, F)
CONVERT_BY(uint8, uint8_t, REAL_NAME)
CONVERT_BY(int8, int8_t, REAL_NAME)
CONVERT_BY(int16, int16_t, REAL_NAME)
CONVERT_BY(int32, int32_t, REAL_NAME)
CONVERT_BY(int64, int64_t, REAL_NAME)
#else
CONVERT(int64, int64_t, I)
CONVERT(float32, float, F)
CONVERT(float64, double, F)
#  if defined(CONVERT_FLOAT)
CONVERT_NARROW(uint8, uint8_t)
CONVERT_NARROW(int8, int8_t)
CONVERT_NARROW(int16, int16_t)
CONVERT_NARROW(int32, int32_t)
#  else
CONVERT(uint8, uint8_t, U)
CONVERT(int8, int8_t, I)
CONVERT(int16, int16_t, I)
CONVERT(int32, int32_t, I)
CONVERT_BY(complex64, float _Complex, float32)
CONVERT_BY(complex128, double _Complex, float64)
#  endif
#endif
#undef S
#undef SN
#undef REAL_NAME
