# Writes HEADER with the revision of SOURCE_DIR as DYNO_GIT: "1b3f85e", "1b3f85e-dirty", or
# "unknown" where there is no repository of its own (a release archive, even one unpacked inside
# some other repository). Leaves HEADER alone when nothing changed, so that nothing recompiles.
set(revision unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH ${SOURCE_DIR} source)
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${GIT} describe --always --dirty --exclude=*
      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(revision ${described})
    endif()
  endif()
endif()

set(text "#define DYNO_GIT \"${revision}\"\n")
set(before "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${HEADER} "${text}")
endif()
