# SPDX-License-Identifier: MIT
"""How many GPUs there are for this process. gpus_here in tools/launcher/common.sh counts them for the launcher."""
import glob
import os


def gpus_here(devices="/dev"):
    """Returns the number of device files of GPUs that this process may open. A job may have fewer of them than its machine."""
    return sum(os.access(path, os.R_OK | os.W_OK) for path in glob.glob(glob.escape(devices) + "/nvidia[0-9]*"))
