"""heat.py: a plate in NumPy, whose heat a kernel in Lua spreads in place.

    python3 heat.py                                # tide is in this Python's prefix (pip install tide-....whl)
    TIDE_PREFIX=/usr python3 heat.py               # tide is elsewhere
"""
import os
import sys

import numpy

from tide_numpy import Tide

tide = Tide(lua=sys.argv[1] if len(sys.argv) > 1 else "lua54")
steps = tide.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "heat.lua"))

plate = numpy.zeros((200, 300), "float32")
plate[0] = 100                                     # one edge is hot
mean = steps(tide.tensor(plate), 500, 0.2)         # tide writes into NumPy's memory
print("mean %.4f, NumPy says %.4f" % (mean, plate.mean()))
print("below the hot edge: %.1f %.1f %.1f" % tuple(plate[1:4, 150]))

noise = tide.array(tide.tide.randn(200, 300))      # NumPy reads tide's memory
plate += noise
print("noise: mean %.1f, deviation %.1f" % (abs(noise.mean()), noise.std()))
