/* test_kernel_classes.c - names of real kernels and the classes they are filed under, and the files of
 * rules that users write. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "profile/kernel_classes.h"
#include "support/expect.h"
#include "support/scratch.h"

static void names_of_real_kernels_have_their_classes(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *op, *class_name;
    } cases[] = {
        {"ampere_sgemm_128x64_tn", NULL, "matmul"},
        {"nvjet_tst_128x256_64x4_1x2_h_bz_TNT", NULL, "matmul"},
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", NULL, "matmul"},
        {"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>", NULL,
         "matmul"},
        {"void cublasLt::splitKreduce_kernel<32, 16, int, float>", NULL, "matmul"},
        {"void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(cublasTransposeParams<float>, float "
         "const*, float*, float const*)",
         "aten::addmm", "element-wise"},
        {"void cublasLt::epilogue::impl::globalKernel<8, 32, float, float, float, true, true, 0>",
         "aten::addmm", "element-wise"},
        {"void gemv2T_kernel_val<int, int, float>", NULL, "matmul"},
        {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", NULL,
         "attention"},
        {"fmha_cutlassF_f32_aligned_64x64_rf_sm80", NULL, "attention"},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
         "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>",
         NULL, "softmax"},
        {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, false, false>",
         NULL, "softmax"},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
         "c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>",
         NULL, "loss"},
        {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>",
         NULL, "loss"},
        {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>", NULL,
         "norm"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
         "std::array<char*, 3ul>>",
         NULL, "element-wise"},
        {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(...)>",
         NULL, "copy"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", NULL,
         "copy"},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::func_wrapper_t<float, at::native::sum_functor<float>>>>",
         NULL, "reduction"},
        {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
         "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>>",
         NULL, "optimizer"},
        {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int>",
         NULL, "gather"},
        {"Memcpy HtoD (Pageable -> Device)", NULL, "copy"},
        {"Memset (Device)", NULL, "copy"},
        {"[CUDA memcpy Device-to-Device]", NULL, "copy"},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", NULL,
         "communication"},
        {"triton_poi_fused_add_gelu_0", NULL, "element-wise"},
        {"triton_red_fused_native_layer_norm_2", NULL, "norm"},
        {"triton_per_fused__softmax_3", NULL, "softmax"},
        {"sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32", NULL, "convolution"},
        {"aten::addmm", NULL, "matmul"},
        {"aten::_softmax", NULL, "softmax"},
        {"aten::empty_strided", NULL, "allocation"},
        {"aten::view", NULL, "view"},
        /* Names that others begin with. */
        {"aten::exp", NULL, "element-wise"},
        {"aten::expand", NULL, "view"},
        {"aten::exponential_", NULL, "random"},
        {"aten::clamp_min", NULL, "element-wise"},
        {"aten::log1p", NULL, "element-wise"},
        {"aten::log_softmax", NULL, "loss"},
        {"aten::max", NULL, "reduction"},
        {"aten::maximum", NULL, "element-wise"},
        {"aten::min", NULL, "reduction"},
        {"aten::ne", NULL, "element-wise"},
        {"aten::neg", NULL, "element-wise"},
        {"aten::new_empty", NULL, "allocation"},
        {"aten::new_zeros", NULL, "copy"},
        {"aten::ge", NULL, "element-wise"},
        {"aten::lerp_", NULL, "element-wise"},
        {"aten::abs", NULL, "element-wise"},
        {"aten::ger", NULL, "matmul"},
        {"aten::logcumsumexp", NULL, "reduction"},
        {"aten::log_normal_", NULL, "random"},
        {"aten::tensordot", NULL, "matmul"},
        {"aten::trace", NULL, "reduction"},
        {"aten::tile", NULL, "copy"},
        {"aten::type_as", NULL, "copy"},
        {"aten::t", NULL, "view"},
        {"aten::to", NULL, "copy"},
        {"aten::topk", NULL, "sort"},
        {"aten::tanh", NULL, "element-wise"},
        {"aten::all", NULL, "reduction"},
        {"aten::randn", NULL, "random"},
        {"aten::conv2d", NULL, "convolution"},
        {"aten::item", NULL, "copy"},
        {"my_own_kernel", NULL, "other"},
        {"my_own_kernel", "aten::mm", "matmul"},
        {NULL, "aten::add_", "element-wise"},
        {NULL, NULL, "other"},
    };
    kernel_classes *classes;
    expect_ok(kernel_classes_create(NULL, &classes));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(kernel_classes_find(classes, cases[i].kernel, cases[i].op),
                            cases[i].class_name);
    kernel_classes_destroy(classes);
}

static dyno_status create(const char *rules, size_t size, kernel_classes **out) {
    scratch place = scratch_create();
    scratch_write(&place, "rules", rules, size);
    dyno_status status = kernel_classes_create(scratch_join(&place, "rules").text, out);
    scratch_remove(&place);
    return status;
}

static void rules_of_a_file_come_first_and_in_their_order(void **state) {
    (void)state;
    static const char rules[] = "# ours\r\n"
                                "\n"
                                "my_*_kernel, mine\n"
                                "  void fused<float, 4>, fused things  \r\n"
                                "gemm, products of others\n"
                                "sgemm, never reached\n"
                                "no_newline, last";
    kernel_classes *classes;
    expect_ok(create(rules, strlen(rules), &classes));
    assert_string_equal(kernel_classes_find(classes, "void MY_own_kernel<3>", NULL), "mine");
    assert_string_equal(kernel_classes_find(classes, "my_kernel", NULL), "other");
    assert_string_equal(kernel_classes_find(classes, "void fused<float, 4>(int)", NULL),
                        "fused things");
    assert_string_equal(kernel_classes_find(classes, "ampere_sgemm", NULL), "products of others");
    assert_string_equal(kernel_classes_find(classes, "a no_newline b", NULL), "last");
    assert_string_equal(kernel_classes_find(classes, "softmax", NULL), "softmax");
    kernel_classes_destroy(classes);
}

static void star_stands_for_any_characters(void **state) {
    (void)state;
    static const char rules[] = "a*b*c, stars\nxx*xy, again";
    kernel_classes *classes;
    expect_ok(create(rules, strlen(rules), &classes));
    assert_string_equal(kernel_classes_find(classes, "..abc..", NULL), "stars");
    assert_string_equal(kernel_classes_find(classes, "a b b c", NULL), "stars");
    assert_string_equal(kernel_classes_find(classes, "acb", NULL), "other");
    assert_string_equal(kernel_classes_find(classes, "xxxxy", NULL), "again");
    assert_string_equal(kernel_classes_find(classes, "xxy", NULL), "other");
    kernel_classes_destroy(classes);
}

static void bad_line_is_an_error_with_its_number(void **state) {
    (void)state;
    static const struct {
        const char *rules, *part;
        size_t size;
    } cases[] = {
        {"a, b\nwithout a comma\n", "line 2: 'without a comma' has no comma", 0},
        {"a, b\n\n, c\n", "line 3: the pattern is ''", 0},
        {"**, c\n", "line 1: the pattern is '**'", 0},
        {"a,\n", "line 1: there is no class", 0},
        {"a\0b, c", "holds a NUL", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kernel_classes *classes;
        size_t size = cases[i].size ? cases[i].size : strlen(cases[i].rules);
        assert_int_equal(create(cases[i].rules, size, &classes), DYNO_INVALID);
        assert_null(classes);
        if (!strstr(dyno_error_message(), cases[i].part))
            fail_msg("'%s' has no '%s'", dyno_error_message(), cases[i].part);
    }
    kernel_classes *classes;
    assert_int_equal(kernel_classes_create("/nonexistent/rules", &classes), DYNO_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_real_kernels_have_their_classes),
        cmocka_unit_test(rules_of_a_file_come_first_and_in_their_order),
        cmocka_unit_test(star_stands_for_any_characters),
        cmocka_unit_test(bad_line_is_an_error_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
