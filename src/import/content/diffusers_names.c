/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/diffusers_names.c - modules that model_index.json may name. Read first: content.h.
 */
#include "import/content/content.h"

/* What diffusers has, or imports of its own. */
/* clang-format off */
const char *const sft__import_diffusers_own[] = {
    "diffusers", "transformers", "optimum", "onnxruntime", "stable_diffusion", "paint_by_example",
    "deepfloyd_if", "versatile_diffusion", "latent_diffusion", "unclip", "unidiffuser",
    "wuerstchen", "shap_e", "kandinsky", "audioldm2", "kolors", "alt_diffusion", "vq_diffusion",
    "semantic_stable_diffusion", "stable_diffusion_safe", "spectrogram_diffusion", "stable_cascade",
    "flux", "flux2", "wan", "qwenimage", "ltx", "ltx2", "omnigen", "hidream_image", "hunyuan_video",
    "cogvideo", "pixart_alpha", "chronoedit", "cosmos", "lumina2", "sana", "easyanimate",
    "stable_audio", "allegro", "mochi", "bria", "bria_fibo", "kandinsky5", "z_image", NULL};
/* clang-format on */
