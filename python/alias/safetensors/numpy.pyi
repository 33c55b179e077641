from safetensors_c.numpy import *
