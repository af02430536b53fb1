"""The only code that touches llama_cpp. Each file can be imported alone; settings, text and threads do
without llama_cpp.

Importing this package bounds how long OpenMP's waiting threads spin, because OpenMP reads that only once,
when llama_cpp is first imported. GNU's default is to spin for seconds: a second busy process on the machine
then slows decoding down a hundred times (measured). 1000 turns cost an idle machine 2 to 3 %, and 300 cost it
5 to 13 %. Beside a busy process fewer threads are used anyway; where a person has set two threads for two
cores, 1000 turns leave a third of the idle speed, 300 nearly half of it, and 3000 a fifth.
"""

import os

# Not where a person has chosen already.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "1000"
