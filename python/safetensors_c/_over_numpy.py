# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the frameworks have in common whose tensors come and go as NumPy arrays: JAX, TensorFlow and MLX."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _alias, _io, numpy
from ._io import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO


class OverNumpy(_io.Frame[Tensor]):
    """module: as in Frame. to_arrays, to_tensors: what its functions are called that turn dicts of the one into dicts of
    the other."""

    def __init__(self, module: dict[str, Any], to_arrays: str, to_tensors: str) -> None:
        super().__init__(module)
        self.to_arrays = to_arrays
        self.to_tensors = to_tensors

    def arrays(self, tensors: Any) -> dict[str, np.ndarray]:
        return self.module[self.to_arrays](tensors)  # type: ignore[no-any-return]

    def tensors(self, arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
        return self.module[self.to_tensors](arrays)  # type: ignore[no-any-return]

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return numpy._flatten(self.arrays(tensors), keep)

    def alias(self, base: Any, view: _alias.View) -> Any:
        array = numpy._FRAME.alias(self.arrays({"": base})[""], view)
        return self.tensors({"": np.asarray(array, order="C")})[""]

    def dtype(self, dtype: Any) -> Any:
        """NumPy's type of the format's name; anything else as it is."""
        return numpy._getdtype(dtype) if isinstance(dtype, str) and dtype in _io.NAMES else dtype

    def save(self, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
        """The bytes of a safetensors file with these tensors. metadata: text to text. Raises what save_file raises."""
        return numpy.save(self.arrays(tensors), metadata=metadata)

    def save_file(
        self,
        tensors: dict[str, Tensor],
        filename: _io.Path | BinaryIO,
        metadata: dict[str, str] | None = None,
        *,
        digests: str | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Saves tensors to a path, all or nothing, or to an object with write(). The caller's dict is left as it is.

        metadata: text to text. digests: "crc32c" or "sha256", recorded per tensor for verify=. progress(done, total):
        bytes; an exception in it ends the save, and no file is left.
        Raises OSError, and SafetensorError for a type that the format lacks.
        """
        extra = _io.given(digests=digests, progress=progress)
        numpy.save_file(self.arrays(tensors), filename, metadata=metadata, **extra)

    def load(self, data: Any) -> dict[str, Tensor]:
        """Tensors from the bytes of a file. Raises SafetensorError for one that is not valid."""
        return self.tensors(numpy.load(data))
