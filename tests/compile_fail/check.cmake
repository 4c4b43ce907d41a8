# cmake -D CXX=<compiler> -D SOURCE=<file> -D INCLUDE=<folders> -P check.cmake
#
# Passes when SOURCE compiles as it is and, with TENON_EXPECT_ERROR defined, does not, with messages that match the
# regular expression of each of its `// expect:` lines, and an error among them is at a line of SOURCE.
set(command "${CXX}" -std=c++20 -fsyntax-only)
foreach(directory IN LISTS INCLUDE)
  list(APPEND command -isystem "${directory}")
endforeach()

execute_process(COMMAND ${command} "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE messages)
if(NOT result EQUAL 0)
  message(NOTICE "${messages}")
  message(FATAL_ERROR "${SOURCE} should compile without TENON_EXPECT_ERROR")
endif()

execute_process(COMMAND ${command} -DTENON_EXPECT_ERROR "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE messages)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles with TENON_EXPECT_ERROR, which is the mistake that it is about")
endif()
file(STRINGS "${SOURCE}" expectations REGEX "^// expect: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE} has no line `// expect: <regular expression>`")
endif()
foreach(expectation IN LISTS expectations)
  string(REGEX REPLACE "^// expect: " "" expectation "${expectation}")
  if(NOT messages MATCHES "${expectation}")
    message(NOTICE "${messages}")
    message(FATAL_ERROR "no message of ${CXX} matches `${expectation}`")
  endif()
endforeach()
# The path as the compiler got it, with what means something in a regular expression taken literally.
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" literal "${SOURCE}")
if(NOT "\n${messages}" MATCHES "\n${literal}:[0-9]+:[0-9]+: error: ")
  message(NOTICE "${messages}")
  message(FATAL_ERROR "no error is reported at a line of ${SOURCE}")
endif()
