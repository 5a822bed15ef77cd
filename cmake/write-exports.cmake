# Writes MAP, the linker's version script: what HEADER declares is exported, and nothing else; and
# NAMES, the same names one to a line.
file(READ ${HEADER} text)
string(REGEX REPLACE "/[*]([^*]|[*][^/])*[*]+/" "" text "${text}")
string(REGEX MATCHALL "[ *]dyno_[a-z0-9_]+[(]" declared "${text}")
list(TRANSFORM declared REPLACE "[ *(]" "")
list(SORT declared)
list(JOIN declared ";\n        " names)
file(WRITE ${MAP} "{\n    global:\n        ${names};\n    local: *;\n};\n")
list(JOIN declared "\n" names)
file(WRITE ${NAMES} "${names}\n")
