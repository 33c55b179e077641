/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/sft.h - the whole public interface but sft/extend.h. A first program:
 *
 *     sft_catalog *model;
 *     sft_error err;
 *     if (sft_catalog_open(&model, "model.safetensors", NULL, &err)) { puts(err.message); return 1; }
 *     const sft_tensor *w = sft_catalog_find(model, "wte.weight", 10);
 *     ... sft_tensor_read(model, w, NULL, buffer, w->nbytes, &err) ...
 *     sft_catalog_close(model);
 */
#ifndef SFT_SFT_H
#define SFT_SFT_H

#include <sft/catalog.h>
#include <sft/digest.h>
#include <sft/dtype.h>
#include <sft/edit.h>
#include <sft/load.h>
#include <sft/open.h>
#include <sft/read.h>
#include <sft/region.h>
#include <sft/source.h>
#include <sft/stream.h>
#include <sft/types.h>
#include <sft/write.h>

#endif
