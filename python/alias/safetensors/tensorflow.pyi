from safetensors_c.tensorflow import *
