"""The kernels on an NVIDIA GPU, with torch and Triton.

Only `device` needs a GPU, and so do the modules that import it. Under Triton's interpreter
(``TRITON_INTERPRET=1``) everything runs on the CPU, slowly, for tests.
"""

from somf.optional import import_optional

import_optional("torch", "cuda", 'device="cuda"')
import_optional("triton", "cuda", 'device="cuda"')
