# Facts, statistics, histogram and values of one tensor; slices; several by pattern.
safetensors show small.safetensors weight
safetensors show small.safetensors 'weight[:, ::-1]' --no-histogram
safetensors show cube.safetensors 'w[0]' --no-stats
safetensors show cube.safetensors 'w[..., 2]' 'w[1:3, -1]' --no-stats
safetensors show kinds.safetensors '*' --no-histogram
safetensors show model 'b[0:2]' --ascii --bins 4
