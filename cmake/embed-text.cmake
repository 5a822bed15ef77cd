# Writes HEADER, which defines NAME as a C string holding FILE without its #include lines and its
# guard: code that is compiled in and also given to generated kernels.
file(READ ${FILE} body)
string(REGEX REPLACE "\n#include[^\n]*" "" body "${body}")
string(REGEX REPLACE "\n#ifndef [A-Z_]+_H\n#define [A-Z_]+_H\n" "\n" body "${body}")
string(REGEX REPLACE "\n#endif\n$" "\n" body "${body}")
string(REPLACE "\\" "\\\\" body "${body}")
string(REPLACE "\"" "\\\"" body "${body}")
string(REPLACE "\n" "\\n\" \\\n    \"" body "${body}")
file(WRITE ${HEADER} "#define ${NAME} \\\n    \"${body}\"\n")
