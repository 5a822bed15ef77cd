/* fuzz_config.c - any bytes as config.json: refused with a message, or a configuration whose
 * parameters can be listed and which survives being written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/config_json.h"
#include "model/config.h"
#include "model/parameters.h"

static void require(int holds) {
    if (!holds)
        abort();
}

static void check_parameters(const model_config *config) {
    int count = model_parameter_count(config);
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        model_parameter parameter = model_parameter_at(config, i);
        require(shape_is_valid(&parameter.shape, sizeof(double)) && parameter.name[0]);
        total += shape_elements(&parameter.shape);
    }
    require(total == model_parameter_elements(config) && total <= MODEL_MAX_PARAMETERS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_config config = {0}, again = {0};
    if (model_config_parse((const char *)data, size, "fuzz", &config) != DYNO_OK) {
        require(dyno_error_message()[0] && config.d_model == 0);
        return 0;
    }
    require(model_config_check(&config) == DYNO_OK);
    check_parameters(&config);
    json_t *json = model_config_to_json(&config);
    char *dump = json_dumps(json, JSON_REAL_PRECISION(17));
    json_decref(json);
    require(model_config_parse(dump, strlen(dump), "again", &again) == DYNO_OK);
    require(memcmp(&config, &again, sizeof config) == 0);
    free(dump);
    return 0;
}
