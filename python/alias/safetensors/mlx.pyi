from safetensors_c.mlx import *
