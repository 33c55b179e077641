/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The C++ wrapper at work: lists a model, then writes every floating-point tensor as F32 to a new file.
 *     cpp_to_f32 MODEL OUT.safetensors
 */
#include <sft/sft.hpp>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: cpp_to_f32 MODEL OUT.safetensors\n");
        return 2;
    }
    try {
        const sft::catalog model(argv[1]);
        sft::writer out(argv[2]);
        std::vector<sft::tensor_view> chosen;
        for (const sft::tensor_view t : model) {
            std::printf("%-8s %12llu bytes  %.*s\n", t.dtype().name,
                        static_cast<unsigned long long>(t.nbytes()),
                        static_cast<int>(t.name().size()), t.name().data());
            if (t.dtype().kind == SFT_KIND_FLOAT) {
                out.declare(t.name(), SFT_F32, t.shape());
                chosen.push_back(t);
            }
        }
        out.metadata("made_by", "cpp_to_f32");
        for (std::uint32_t i = 0; i < chosen.size(); i++) {
            out.put(i, chosen[i].read_as<float>());
        }
        out.commit();
        std::printf("%zu tensors written as F32\n", chosen.size());
        return 0;
    } catch (const sft::error &e) {
        std::fprintf(stderr, "%s: %s\n", sft_status_name(e.status()), e.what());
        return 1;
    }
}
