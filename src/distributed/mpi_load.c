/* mpi_load.c - finds and loads libdyno_mpi.so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/module.h"
#include "base/text.h"
#include "distributed/mpi_module.h"

static const char FILE_NAME[] = "libdyno_mpi.so";

static dyno_status host_fail(dyno_status code, const char *message) {
    return dyno_fail(code, "%s", message);
}

static dyno_status load(const mpi_module **out) {
    text tried = {0};
    void *handle = module_open(FILE_NAME, "DYNO_MPI_MODULE", &tried);
    dyno_status status = DYNO_OK;
    if (!handle)
        status = dyno_fail(DYNO_UNSUPPORTED,
                           "there is no MPI module (%s); build dyno where mpicc is, or set "
                           "DYNO_MPI_MODULE to %s",
                           text_string(&tried), FILE_NAME);
    text_release(&tried);
    RETURN_IF_FAILED(status);
    static const mpi_host HOST = {MPI_MODULE_ABI, DYNO_VERSION, host_fail};
    void *symbol = dlsym(handle, "dyno_mpi_module");
    mpi_module_function *enter;
    memcpy(&enter, &symbol, sizeof enter);
    const mpi_module *found = symbol ? enter(&HOST) : NULL;
    if (found && found->abi == MPI_MODULE_ABI && strcmp(found->version, DYNO_VERSION) == 0) {
        *out = found;
        return DYNO_OK;
    }
    dlclose(handle);
    return dyno_fail(DYNO_UNSUPPORTED, "%s %s; build both together", FILE_NAME,
                     symbol ? "is of another version than dyno " DYNO_VERSION : "is no MPI module");
}

dyno_status mpi_module_load(const mpi_module **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const mpi_module *loaded;
    pthread_mutex_lock(&lock);
    dyno_status status = loaded ? DYNO_OK : load(&loaded);
    *out = loaded;
    pthread_mutex_unlock(&lock);
    return status;
}
