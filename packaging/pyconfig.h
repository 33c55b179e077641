/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pyconfig.h - what Python.h has to know of a 64-bit machine when only the stable ABI is used: in place of the one of the
 * Python that happens to be there, which describes another machine. Read first: wheels.py.
 */
#ifndef Py_PYCONFIG_H
#define Py_PYCONFIG_H

#define SIZEOF_SHORT     2
#define SIZEOF_INT       4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P    8
#define SIZEOF_SIZE_T    8
#define SIZEOF_PTHREAD_T 8
#define SIZEOF_TIME_T    8
#define SIZEOF_FLOAT     4
#define SIZEOF_DOUBLE    8
#define SIZEOF__BOOL     1
#define HAVE_INTTYPES_H  1
#define HAVE_STDINT_H    1
#define HAVE_SYS_TYPES_H 1
#define HAVE_WCHAR_H     1
#define HAVE_LONG_LONG   1
#define HAVE_SSIZE_T     1
#define STDC_HEADERS     1
#define WITH_DOC_STRINGS 1

#ifdef _WIN32
#define MS_WIN32          1
#define MS_WIN64          1
#define MS_WINDOWS        1
#define NT_THREADS        1
#define SIZEOF_LONG       4
#define SIZEOF_WCHAR_T    2
#define SIZEOF_OFF_T      4
#define SIZEOF_FPOS_T     8
#define SIZEOF_HKEY       8
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED  1
#define PLATFORM          "win32"
#else
#define SIZEOF_LONG     8
#define SIZEOF_WCHAR_T  4
#define SIZEOF_OFF_T    8
#define SIZEOF_FPOS_T   16
#define HAVE_PTHREAD_H  1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_UNISTD_H   1
#endif

#endif
