"""Writes the HDF5 files of this folder. Needs h5py."""
import h5py, numpy as np, sys
rows, dim = 6, 4
a = (np.arange(rows*dim) * 7 % 100).astype('f4').reshape(rows, dim)
# As ann-benchmarks writes its files, and the layouts and types that others use.
with h5py.File('ann.hdf5', 'w') as f:
    f.create_dataset('train', data=a)
    f.create_dataset('test', data=a[:2])
    f.create_dataset('neighbors', data=np.array([[0, 1], [1, 0]], 'i4'))
    f.create_dataset('distances', data=np.array([[0, .5], [0, .25]], 'f4'))
    f.attrs['distance'] = 'euclidean'
with h5py.File('layouts.h5', 'w', libver='latest') as f:
    f.create_dataset('chunked', data=a, chunks=(4, 3))
    f.create_dataset('gzip', data=a, chunks=(2, 4), compression='gzip', shuffle=True)
    f.create_dataset('grown', data=a, maxshape=(None, dim), chunks=(4, dim), fletcher32=True)
    f.create_dataset('big', data=a.astype('>f8'))
    f.create_dataset('u8', data=a.astype('u1'))
    f.create_dataset('half', data=a.astype('f2'))
    f.create_dataset('deep/er/rows', data=a.astype('i8'))
    f.create_dataset('cube', data=a.reshape(2, 3, 4))
    f.create_dataset('texts', data=np.array([b'a', b'bc']))
    f.create_dataset('line', data=a[:, 0])
    f.create_dataset('unwritten', shape=(3, 2), dtype='f4', fillvalue=1.5, chunks=(2, 2))
with h5py.File('one.h5', 'w', libver='earliest') as f:
    f.create_dataset('rows', data=a, chunks=(3, 2), compression='gzip')
    f.create_dataset('ids', data=np.array([[1]], 'i8'))
