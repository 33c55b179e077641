from safetensors_c.torch import *
