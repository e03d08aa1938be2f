# SPDX-License-Identifier: Apache-2.0
"""The corpus: real binaries by build-id, with what is expected to be planned on them. No binary is kept, only plans.

`sources.txt` says what is fetched, `binaries.txt` what that was, plans/ what is expected. A file of the corpus is compared in
full. Of a distribution's update, which may move code about, the same must be planned, and the same be missing.

    make corpus            # fetches what can be had, and compares all of it
    make corpus WRITE=1    # makes the plans, the list and the tables of docs/internals/probe-sites.md anew
"""
