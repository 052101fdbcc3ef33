#include <cstdlib>
int started = system("true");
