from safetensors_c.paddle import *
