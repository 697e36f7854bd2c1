/* convert_from.h: template of the conversions from one type. S: the type, SN: its dtype's name, SK: its kind. */
CONVERT(b8, uint8_t, B)
CONVERT(int64, int64_t, I)
CONVERT(float32, float, F)
CONVERT(float64, double, F)
CONVERT(complex64, float _Complex, C)
CONVERT(complex128, double _Complex, C)
#ifdef CONVERT_FROM_FLOAT
CONVERT_NARROW(uint8, uint8_t)
CONVERT_NARROW(int8, int8_t)
CONVERT_NARROW(int16, int16_t)
CONVERT_NARROW(int32, int32_t)
#else
CONVERT(uint8, uint8_t, U)
CONVERT(int8, int8_t, I)
CONVERT(int16, int16_t, I)
CONVERT(int32, int32_t, I)
#endif
#undef S
#undef SN
#undef SK
