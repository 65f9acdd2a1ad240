# Boost's headers: the target boost_headers.
include(PythonHeaders)
python_headers(boost_headers boost-headers boost/version.hpp)
