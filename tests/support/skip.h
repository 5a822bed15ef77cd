/* skip.h - skips the test that runs, and says why: scripts/count-tests lists the reasons behind the
 * last test. Included behind cmocka.h. */
#ifndef TESTS_SUPPORT_SKIP_H
#define TESTS_SUPPORT_SKIP_H

#define SKIP_BECAUSE(...)                                                                          \
    do {                                                                                           \
        print_message("it cannot be tested here: ");                                               \
        print_message(__VA_ARGS__);                                                                \
        print_message("\n");                                                                       \
        skip();                                                                                    \
    } while (0)

#endif
