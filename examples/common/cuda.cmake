# tenon_program_on_cuda(<program> <file>…): where CUDA is enabled, adds the files that a program has for --device cuda,
# the kernels, and TENON_PROGRAM_CUDA, which says in the program that both are there.
include_guard(GLOBAL)
function(tenon_program_on_cuda name)
  if(NOT TENON_ENABLE_CUDA)
    return()
  endif()
  target_sources(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE tenon::cuda_kernels)
  target_compile_definitions(${name} PRIVATE TENON_PROGRAM_CUDA=1)
endfunction()
