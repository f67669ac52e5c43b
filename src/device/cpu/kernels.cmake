# The kernels, compiled once for each kind of numbers and each kernel set: object libraries of the same sources, but where a
# tuned kernel takes a plain one's place. The set `baseline` is there for every CPU, and gives the same bits on all of them;
# the others, and tuned kernels, are for x86-64.
# SW_KIND and SW_SET name the table that a library exports (src/device/cpu/plain/table.c).

# Sums of products are fused where a set has the instruction; `baseline` does without, though some CPUs always have it. gcc has one
# way to say so; clang also fuses across statements by it, one way here and another there where a function is inlined twice, and
# bits would follow the number of rows: it fuses within an expression.
set(SW_CONTRACT -ffp-contract=fast)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  set(SW_CONTRACT -ffp-contract=on)
endif()

file(GLOB SW_PLAIN_KERNELS CONFIGURE_DEPENDS src/device/cpu/plain/*.c)

set(SW_TUNED_ATTENTION src/device/cpu/tuned/attention.c src/device/cpu/tuned/attention_grad.c)

set(SW_SETS baseline)
set(SW_OPTIONS_baseline -ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND SW_SETS v3 v4)
  list(APPEND SW_OPTIONS_baseline -march=x86-64 -mtune=generic)
endif()
set(SW_OPTIONS_v3 ${SW_CONTRACT} -march=x86-64-v3 -mtune=generic)
set(SW_OPTIONS_v4 ${SW_CONTRACT} -march=x86-64-v4 -mtune=generic -mprefer-vector-width=512)
set(SW_VECTOR_BYTES_baseline 16)
set(SW_VECTOR_BYTES_v3 32)
set(SW_VECTOR_BYTES_v4 64)

foreach(set IN LISTS SW_SETS)
  foreach(kind f32 bf16 f64)
    set(library kernels_${kind}_${set})
    set(sources ${SW_PLAIN_KERNELS})
    if(NOT set STREQUAL baseline AND NOT kind STREQUAL f64) # a tuned kernel takes the plain one's place and name
      list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cpu/plain/attention.c)
      list(APPEND sources ${SW_TUNED_ATTENTION})
    endif()
    add_library(${library} OBJECT ${sources})
    target_include_directories(${library} PRIVATE include src)
    target_compile_definitions(${library} PRIVATE SW_KIND=${kind} SW_KIND_${kind} SW_SET=${set}
                               SW_VECTOR_BYTES=${SW_VECTOR_BYTES_${set}})
    # A product and a sum may become one fused operation where the set has it; nothing else may be reordered.
    target_compile_options(${library} PRIVATE ${SW_WARNINGS} -O3 -fno-math-errno -fno-trapping-math ${SW_OPTIONS_${set}})
    list(APPEND SW_KERNEL_OBJECTS $<TARGET_OBJECTS:${library}>)
  endforeach()
endforeach()

if(NOT v3 IN_LIST SW_SETS)
  return()
endif()

# Attention with dot products of bf16 pairs: a choice beside the set (sw_gemm_kind), not a set of its own.
add_library(kernels_bf16_v4_dot OBJECT ${SW_TUNED_ATTENTION})
target_include_directories(kernels_bf16_v4_dot PRIVATE include src)
target_compile_definitions(kernels_bf16_v4_dot PRIVATE SW_KIND=bf16 SW_KIND_bf16 SW_SET=v4_dot SW_DOT
                           SW_VECTOR_BYTES=64)
target_compile_options(kernels_bf16_v4_dot PRIVATE ${SW_WARNINGS} -O3 -fno-math-errno -fno-trapping-math ${SW_OPTIONS_v4} -mavx512bf16)
list(APPEND SW_KERNEL_OBJECTS $<TARGET_OBJECTS:kernels_bf16_v4_dot>)

# The tuned matrix product, for the sets that it is written for: SW_TUNED is its name in this one.
foreach(tuned v3 v4 v4_bf16)
  string(REGEX REPLACE "_.*" "" set ${tuned})
  set(library kernels_tuned_${tuned})
  add_library(${library} OBJECT src/device/cpu/tuned/product.c)
  target_include_directories(${library} PRIVATE include src)
  if(SW_SANITIZE MATCHES "address" OR SW_FUZZ)
    # Checks between the lines of unrolled tiles take compilers minutes; tests/device/test_gemm.c has guard pages around every operand.
    target_compile_options(${library} PRIVATE -fno-sanitize=all)
  endif()
  target_compile_definitions(${library} PRIVATE SW_TUNED=sw_multiply_${tuned} SW_VECTOR_BYTES=${SW_VECTOR_BYTES_${set}})
  target_compile_options(${library} PRIVATE ${SW_WARNINGS} -O3 -fno-math-errno -fno-trapping-math ${SW_OPTIONS_${set}})
  list(APPEND SW_KERNEL_OBJECTS $<TARGET_OBJECTS:${library}>)
endforeach()
target_compile_definitions(kernels_tuned_v4_bf16 PRIVATE SW_PAIRS)
target_compile_options(kernels_tuned_v4_bf16 PRIVATE -mavx512bf16)
