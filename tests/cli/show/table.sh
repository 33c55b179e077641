# --table: a line for each tensor, its histogram as a sparkline; of a slice that of the slice.
safetensors show --table small.safetensors '*'
safetensors show --table --ascii kinds.safetensors '*'
safetensors show -t --ascii cube.safetensors 'w[0]' 'w' 'w[1:3]'
safetensors show --table hostile.safetensors '*' --ascii | cut -c1-60
safetensors show --table small.safetensors 'none*'; echo "exit $?"
safetensors show --table --no-stats layers.safetensors "*0*"
