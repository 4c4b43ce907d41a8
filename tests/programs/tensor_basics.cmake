# cmake -D PROGRAM=<tensor_basics> -D README=<README.md> -P tensor_basics.cmake
#
# The program prints the first ```text block of the README.
file(READ "${README}" readme)
if(NOT readme MATCHES "\n```text\n([^`]*)```\n")
  message(FATAL_ERROR "${README} has no block ```text")
endif()
set(expected "${CMAKE_MATCH_1}")
execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} prints\n${output}\nand the README shows\n${expected}")
endif()
