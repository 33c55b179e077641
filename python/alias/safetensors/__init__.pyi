from safetensors_c import *
from safetensors_c import _safe_open_handle as _safe_open_handle

__version__: str
