from safetensors_c.flax import *
